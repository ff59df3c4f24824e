"""Whose tensor is this?"""
