"""What the rank layer costs, against upstream's harness and against the least that it can cost."""
