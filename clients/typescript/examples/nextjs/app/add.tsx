"use client";

import { createSiteClient } from "@holdfast/ext-storage/guest";
import { useRouter } from "next/navigation";

export function AddButton({ item }: { item: string }) {
  const router = useRouter();
  const add = async () => {
    await createSiteClient({ baseUrl: location.origin }).add(item);
    router.refresh();
  };
  return <button onClick={add}>Add {item}</button>;
}
