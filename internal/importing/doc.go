// Package importing fills services' tables from another server's databases while that server keeps running until the
// last pass. It knows no service: a service.Import opens the source, which is read like our tables.
package importing
