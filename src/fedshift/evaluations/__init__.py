"""Evaluations of finished runs from their saved weights and images, one file each.

Adaptations to a domain without labels are evaluations, too.
"""
