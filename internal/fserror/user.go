package fserror

import (
	"os"
	"os/user"
	"strconv"
)

// account is a user of the operating system.
type account struct {
	id   int
	name string // "user ID 1000" if the system knows no name, as in a container
}

// runner is the user as whom this process accesses files.
func runner() account { return accountOf(os.Geteuid()) }

func accountOf(id int) account {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return account{id, u.Username}
	}
	return account{id, "user ID " + strconv.Itoa(id)}
}

// word names the account for commands such as chown.
func (a account) word() string {
	if _, err := user.Lookup(a.name); err == nil {
		return a.name
	}
	return strconv.Itoa(a.id)
}

// sudo is a command line that runs holdfast as this user.
func (a account) sudo() string {
	switch word := a.word(); {
	case a.id == 0:
		return "sudo holdfast …"
	case word != a.name:
		return "sudo -u '#" + word + "' holdfast …"
	default:
		return "sudo -u " + word + " holdfast …"
	}
}
