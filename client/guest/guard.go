package guest

// Guard is a condition of a change to the wishlist: Match or NoneMatch. If it does not hold, nothing changes, and the
// error has the code CodeWishlistChanged and the current tag in ETag. Read the list again, and decide again.
type Guard func(*call)

// Match requires that the list or entry has this entity tag: that of List for AddWish, Add, Clear and SignIn, that of the
// entry (ItemWish.ETag) for other changes. "*" requires that the entry exists.
func Match(tag string) Guard { return func(c *call) { c.ifMatch = tag } }

// NoneMatch requires another entity tag. "*" requires that the entry does not exist.
func NoneMatch(tag string) Guard { return func(c *call) { c.ifNoneMatch = tag } }

// with returns the request with guards.
func (c call) with(guards []Guard) call {
	for _, g := range guards {
		g(&c)
	}
	return c
}
