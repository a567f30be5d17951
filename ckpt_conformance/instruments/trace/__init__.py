"""Who keeps a tensor alive: paths over Python's references and over those of the autograd graph."""
