"""Language models, for training and for inference: architectures, decoders, kernels, adapters and chat templates."""
