"""Adaptation of a trained model to a domain without labels, before it is tested there: one file per published
procedure.
"""
