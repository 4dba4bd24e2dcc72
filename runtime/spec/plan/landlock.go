package plan

// LandlockMin is the first version of Landlock's interface that a jail can use,
// that of Linux 5.19: the one before refuses every rename from one directory to
// another (landlock(7), LANDLOCK_ACCESS_FS_REFER).
const LandlockMin = 2
