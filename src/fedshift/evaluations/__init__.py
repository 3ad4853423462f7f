"""What is computed of finished runs from their kept weights and images, one file each; adaptation to a domain
without labels among it.
"""
