"""Profiles beyond the shipped ones: of the engine that is installed here, and of releases that were added by hand.

`known` finds the profile of a release: shipped, else added. `installation` finds that of an installation, a tree or a
wheel: the release's profile where the files it was derived from are the same, else one derived from these very files
and kept. `folder`, `kept` and `memo` hold what is kept and believe none of it unread.
"""
