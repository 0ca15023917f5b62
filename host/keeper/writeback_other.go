//go:build !linux

package keeper

import "os"

func startWriting(*os.File, int64, int64) {}
