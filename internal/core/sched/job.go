package sched

import ()
