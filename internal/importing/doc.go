// Package importing fills the tables of services from databases of another server, which keeps running until the last
// pass. It knows no service: a service.Import opens the source, which is read like our own tables. Package copying
// copies and compares the rows.
package importing
