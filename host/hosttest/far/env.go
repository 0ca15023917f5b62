package far

// environment is all that commands find in their environment. root is where the
// other root begins in the names there, "" behind a wall.
func environment(root string) []string {
	return []string{
		"PATH=" + root + bin,
		"HOME=" + root + home,
		"USER=far",
		"TMPDIR=" + root + "/tmp",
		"GORACE=atexit_sleep_ms=0", // see hosttest.Main
	}
}
