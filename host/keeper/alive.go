package keeper

// KeeperAlive says whether the keeper of the record is still at work. It ends
// its tree and writes its exit by itself when its client is gone, so whoever
// finds it alive has only to wait.
func (r *Record) KeeperAlive() bool { return alive(r.Keeper) }
