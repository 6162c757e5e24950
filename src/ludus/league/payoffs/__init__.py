"""What members got against each other, as tables."""
