// Package restore makes a new data folder, or fills an empty PostgreSQL database, from a backup folder, a repository
// with backups or a replica, or a dump. It never changes an existing data folder.
package restore
