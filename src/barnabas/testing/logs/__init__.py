"""Generated logs of imaginary services, and the truth about them."""
