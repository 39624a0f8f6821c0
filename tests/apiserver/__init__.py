# SPDX-License-Identifier: GPL-2.0-or-later
"""A Kubernetes API server for tests and benchmarks. Start with README.md."""
