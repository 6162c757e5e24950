"""How the local engine computes tokens: rows of many sequences in, logits out.

Import what you need from the modules (they load PyTorch); `decoder.py` is the first to read.
"""
