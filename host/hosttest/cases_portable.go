package hosttest

func portableCases() []testCase { return nil }
