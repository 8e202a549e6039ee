"""What ``torch.distributed`` promises: its collectives, stores and groups on a real backend."""
