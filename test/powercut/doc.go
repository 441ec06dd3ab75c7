// Package powercut simulates a machine whose disks lose unflushed data in a power failure. It needs Linux, root and
// /dev/fuse.
//
// A disk is a file in this process's FUSE file system, which backs a loop device with ext4. The kernel passes a
// device flush as an fsync of the file. Until then, written sectors are volatile. A cut keeps a random part: nothing,
// everything, whole writes in another order, or single 512-byte sectors. Then the device is detached, and ext4 is
// mounted again and replays its journal.
//
// All disks lose power at the same time. From then on, writes and flushes hang, and after Release they fail. Kill all
// processes that use the disks before Release.
package powercut
