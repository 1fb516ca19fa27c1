"""From a reference to checked launch flags."""
