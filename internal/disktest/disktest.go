// Package disktest gives tests a disk that is soon full.
package disktest
