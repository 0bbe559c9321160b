//! Vector runner, scripted peers and a simulated world with faults and virtual time.
