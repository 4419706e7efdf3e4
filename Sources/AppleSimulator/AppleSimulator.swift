// Interface to come.
