package main

// signalNumber: nothing dies of a signal here but what Rein ended.
func signalNumber(string) int { return 9 }
