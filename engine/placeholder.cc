// Replaced by engine.cc.
