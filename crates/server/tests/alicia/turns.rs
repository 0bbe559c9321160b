//! Turns: AL-041 to AL-054.
