package keeper

import (
	"io/fs"
	"path/filepath"
)

func mayExecute(string, fs.FileInfo) string { return "" }

// extensions is PATHEXT without its surprises.
func extensions(name string) []string {
	if filepath.Ext(name) != "" {
		return []string{""}
	}
	return []string{".exe", ".com", ".bat", ".cmd"}
}

func passwdHome(string, int) string { return "" }

func mayEnter(string) error { return nil }
