"""A library that takes its time over its import."""

import time

time.sleep(1.0)
