// Package proctree finds and ends the processes that descend from one process,
// by /proc and system calls alone: no ps, no kill binary, nothing by name.
package proctree
