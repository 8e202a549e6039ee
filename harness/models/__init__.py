"""Small models for tests of FSDP and DTensor, with the names that upstream's tests rely on.

layers             perceptrons and other small parts: MLP, MLPStack, MLPModule, MLPStacked, DoubleLinear, ...
transformer        ModelArgs and Transformer, a decoder that can be tensor-parallel
fsdp               what a model for FSDP1 parity tests has to offer, and the nested models that do
fsdp_transformer   TransformerWithSharedParams, an encoder-decoder whose embedding is its output layer too
"""
