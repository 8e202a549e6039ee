"""Small models for tests of FSDP and DTensor, with the names that upstream's tests rely on.

layers             perceptrons and other small parts: MLP, MLPStack, MLPModule, MLPStacked, DoubleLinear, ...
transformer        ModelArgs and Transformer, a decoder that can be tensor-parallel
fsdp               what a model for FSDP1 parity tests has to offer, and how it is wrapped and placed
fsdp_nested        NestedWrappedModule and its kin: linear layers, wrapped one inside another
fsdp_experts       MixtureOfExperts, with a layer of its own in each rank
fsdp_delays        ModuleWithDelay, whose device is kept busy
fsdp_skipped       SkipModel, layers of which FSDP1 is to leave some alone
fsdp_transformer   TransformerWithSharedParams, an encoder-decoder whose embedding is its output layer too
"""
