"""Every published implementation, one after another, and one page about them all."""
