// Package powercut simulates a machine whose disks forget at a power cut what was not flushed. It
// needs Linux, root and /dev/fuse.
//
// A disk is one file of a FUSE file system in this process. A loop device has the file as its
// storage, and an ext4 file system is on the loop device. The kernel passes a flush of the device
// as an fsync of the file. Until then, a written sector is in a volatile layer. The cut keeps a
// random part of this layer: nothing, all, whole writes in another order, or single sectors of 512
// bytes. Then the device is detached, and ext4 is mounted again from what is left, so that it
// replays its journal.
//
// All disks of a machine lose power at the same moment. From then on, writes and flushes hang, and
// fail after Release: kill all processes that use the disks between the two calls.
package powercut
