package guest

// Guard is a condition for a wishlist change: Match or NoneMatch. If it does not hold, nothing changes, and the
// error's code is CodeWishlistChanged and its ETag is the current tag. Read the list again, and decide again.
type Guard func(*call)

// Match requires that tag is the current entity tag: the list's tag, from List, for AddWish, Add, Clear and SignIn; the
// entry's tag (ItemWish.ETag) for other changes. "*" requires that the entry exists.
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
