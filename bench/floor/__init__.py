"""The floor in Django: the same design in the ORM, without any feature."""
