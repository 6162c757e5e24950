"""What `ludus chess` does around a training run: begin, measure, look at, convert and migrate networks."""
