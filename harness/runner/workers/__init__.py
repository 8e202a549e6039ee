"""The controller's side of worker processes: starts them through a zygote, hears them, and ends them."""
