import { headers } from "next/headers";

import { cartOf, guestOf, nameOf } from "../guest";
import { AddButton } from "./add";

export default async function Page() {
  const guest = guestOf(await headers());
  const [name, { items }] = [await nameOf(guest), await cartOf(guest)];
  return (
    <main>
      <h1>Shop</h1>
      {["apple", "pear", "plum"].map((item) => (
        <AddButton key={item} item={item} />
      ))}
      <h2>Cart</h2>
      <ul>
        {items.map(({ itemId, quantity }) => (
          <li key={itemId}>{`${quantity} × ${itemId}`}</li>
        ))}
      </ul>
      <form method="post" action="/checkout">
        <input type="hidden" name="cart" value={name} />
        <button disabled={items.length === 0}>Check out</button>
      </form>
    </main>
  );
}
