/** The shop itself: it would be the same without a voice. */

export interface Product {
  id: string;
  name: string;
  price: number;
  detail: string;
  /** A drawing of 48 by 48. */
  drawing: string;
}

export const PRODUCTS: readonly Product[] = [
  { id: "coffee", name: "Coffee beans", price: 8.5, detail: "Medium roast, 500 g", drawing: "M14 18h18v12a8 8 0 0 1-8 8h-2a8 8 0 0 1-8-8zM32 21h3a4 4 0 0 1 0 8h-3M19 8v5M26 8v5" },
  { id: "bread", name: "Rye bread", price: 4.2, detail: "Baked this morning", drawing: "M8 24a8 8 0 0 1 8-9h16a8 8 0 0 1 8 9c0 3-2 4-2 4v8H10v-8s-2-1-2-4zM17 21l3 5M25 21l3 5" },
  { id: "honey", name: "Honey", price: 6.9, detail: "From the hill behind us", drawing: "M15 14h18v4H15zM17 18c-4 3-4 6-4 9v9a4 4 0 0 0 4 4h14a4 4 0 0 0 4-4v-9c0-3 0-6-4-9M20 29h8" },
  { id: "olive-oil", name: "Olive oil", price: 12, detail: "Cold pressed, 750 ml", drawing: "M21 8h6v8c0 3 5 4 5 10v14H16V26c0-6 5-7 5-10zM21 12h6M16 29h16" },
  { id: "tea", name: "Green tea", price: 5.4, detail: "Loose leaves, 100 g", drawing: "M12 20h22v8a10 10 0 0 1-10 10h-2a10 10 0 0 1-10-10zM34 22h4v5h-4M24 16c-5-2-4-7 0-9 4 2 5 7 0 9z" },
  { id: "chocolate", name: "Chocolate", price: 3.8, detail: "Dark, 70 %", drawing: "M12 10h24v28H12zM12 19h24M12 28h24M24 10v28" },
];

export interface Order {
  number: string;
  what: string;
  status: "on its way" | "delivered" | "cancelled" | "placed";
}

export interface Settings {
  name: string;
  bags: number;
  delivery: string;
  newsletter: boolean;
}

interface Kept {
  cart: { [id: string]: number };
  orders: Order[];
  settings: Settings;
  dark: boolean | null;
}

export const PAGES = ["home", "orders", "settings", "help"] as const;
export type PageName = (typeof PAGES)[number];

const KEY = "corner-shop";

export class Shop {
  private kept: Kept;
  /** What has just changed: the first thing to tell somebody who does not see it. */
  private news = "";

  constructor() {
    this.kept = (JSON.parse(sessionStorage.getItem(KEY) ?? "null") as Kept | null) ?? {
      cart: {},
      orders: [
        { number: "1042", what: "Coffee beans and rye bread", status: "on its way" },
        { number: "1017", what: "Olive oil", status: "delivered" },
      ],
      settings: { name: "Robin Reed", bags: 2, delivery: "standard", newsletter: false },
      dark: null,
    };
  }

  /** Draws everything, and follows what people do. */
  open(): void {
    this.drawProducts();
    this.drawCart();
    this.drawOrders();
    this.fillSettings();
    this.applyTheme();
    window.addEventListener("hashchange", () => this.showPage(true));
    this.showPage(false);
    get("search").addEventListener("input", () => this.filterProducts());
    get("place-order").addEventListener("click", () => this.placeOrder());
    get("clear-cart").addEventListener("click", () => this.changeCart({}, ""));
    get("dark-mode").addEventListener("click", () => {
      this.kept.dark = !this.isDark();
      this.keep();
      this.applyTheme();
      this.news = `Dark mode is ${this.kept.dark ? "on" : "off"}.`;
    });
    get("settings-form").addEventListener("change", (event) => this.settingChanged(event.target as HTMLInputElement));
    get("settings-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.saveSettings();
    });
  }

  page(): PageName {
    const name = location.hash.replace(/^#\//, "");
    return PAGES.find((page) => page === name) ?? "home";
  }

  goTo(page: string): void {
    location.hash = `#/${page}`;
    // The event comes later; what is on the screen should be right at once.
    this.showPage(true);
  }

  /** The screen in words, for somebody who does not see it. */
  describe(): string {
    return `${this.news} ${this.describePage()}`.trim();
  }

  private describePage(): string {
    const cart = this.cartInWords();
    switch (this.page()) {
      case "home": {
        const shown = PRODUCTS.filter((product) => !get(`product-${product.id}`).hidden).map((product) => `${product.name} for ${money(product.price)}`);
        return `Home page of the Corner Shop. ${shown.length ? `Products: ${shown.join(", ")}.` : "No product fits the search."} ${cart}`;
      }
      case "orders":
        return `Orders page. ${this.kept.orders.map((order) => `Order ${order.number}, ${order.what}, is ${order.status}.`).join(" ")} ${cart}`;
      case "settings": {
        const { name, bags, delivery, newsletter } = this.filledIn();
        return `Settings page. The name on the parcel is ${name}. ${bags} bags come with a delivery. Delivery is ${delivery}. The newsletter is ${newsletter ? "on" : "off"}. There is a field for the password.`;
      }
      case "help":
        return `Help page. It lists what can be said, and the keys. ${cart}`;
    }
  }

  title(page: PageName): string {
    return { home: "Home", orders: "Your orders", settings: "Settings", help: "Help" }[page];
  }

  private showPage(focus: boolean): void {
    const page = this.page();
    this.news = "";
    for (const section of document.querySelectorAll<HTMLElement>("[data-page]")) section.hidden = section.dataset.page !== page;
    for (const link of document.querySelectorAll<HTMLAnchorElement>("nav a")) {
      if (link.hash === `#/${page}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${this.title(page)} · Corner Shop`;
    // Only what the page's own links do moves the focus; somebody may be typing elsewhere.
    if (focus && document.activeElement?.closest("nav")) get("page").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  private drawProducts(): void {
    get("products").replaceChildren(
      ...PRODUCTS.map((product) => {
        const item = make("li", "", "product");
        item.id = `product-${product.id}`;
        const name = make("h2", product.name);
        const add = make("button", "Add to cart") as HTMLButtonElement;
        add.type = "button";
        add.setAttribute("aria-label", `Add ${product.name} to the cart`);
        add.dataset.vipAction = `cart.add.${product.id}`;
        add.dataset.vipDescription = `Add ${product.name.toLowerCase()} to the cart`;
        add.dataset.vipIdempotent = "false";
        add.addEventListener("click", () => {
          this.changeCart({ ...this.kept.cart, [product.id]: (this.kept.cart[product.id] ?? 0) + 1 }, `${product.name} added.`);
        });
        const buy = make("div", "", "buy");
        buy.append(make("p", money(product.price)), add);
        item.append(drawing(product.drawing), name, make("p", product.detail, "quiet"), buy);
        return item;
      }),
    );
  }

  private filterProducts(): void {
    const wanted = get<HTMLInputElement>("search").value.trim().toLowerCase();
    let left = 0;
    for (const product of PRODUCTS) {
      const fits = `${product.name} ${product.detail}`.toLowerCase().includes(wanted);
      get(`product-${product.id}`).hidden = !fits;
      if (fits) left += 1;
    }
    get("no-products").hidden = left > 0;
    this.news = wanted ? `${left} of ${PRODUCTS.length} products fit ${wanted}.` : "";
  }

  private changeCart(cart: { [id: string]: number }, news: string): void {
    this.kept.cart = cart;
    this.keep();
    this.news = `${news} ${this.cartInWords()}`;
    this.drawCart();
  }

  private inCart(): { product: Product; count: number }[] {
    return PRODUCTS.map((product) => ({ product, count: this.kept.cart[product.id] ?? 0 })).filter(({ count }) => count > 0);
  }

  private total(): number {
    return this.inCart().reduce((sum, { product, count }) => sum + product.price * count, 0);
  }

  private cartInWords(): string {
    const lines = this.inCart();
    if (!lines.length) return "The cart is empty.";
    return `In the cart: ${lines.map(({ product, count }) => `${count} times ${product.name}`).join(", ")}. Together ${money(this.total())}.`;
  }

  private drawCart(): void {
    const lines = this.inCart();
    get("cart-items").replaceChildren(
      ...lines.map(({ product, count }) => {
        const line = make("li", "");
        line.append(make("span", `${count} × ${product.name}`), make("span", money(product.price * count)));
        return line;
      }),
    );
    get("cart-summary").textContent = lines.length ? `Together ${money(this.total())}` : "The cart is empty.";
    get<HTMLButtonElement>("place-order").disabled = get<HTMLButtonElement>("clear-cart").disabled = lines.length === 0;
  }

  private placeOrder(): void {
    const what = this.inCart().map(({ product, count }) => `${count} × ${product.name}`).join(", ");
    const number = String(1000 + 42 + this.kept.orders.length);
    this.kept.orders = [{ number, what, status: "placed" }, ...this.kept.orders];
    this.changeCart({}, "");
    this.drawOrders();
    this.goTo("orders");
    this.news = `Order ${number} is placed.`;
  }

  private drawOrders(): void {
    const open = this.kept.orders.find((order) => order.status === "placed" || order.status === "on its way");
    get("orders").replaceChildren(
      ...this.kept.orders.map((order) => {
        const item = make("li", "", "order");
        item.dataset.status = order.status;
        item.append(make("h2", `Order ${order.number}`), make("p", order.what), make("p", order.status, "tag"));
        if (order.status === "placed" || order.status === "on its way") {
          const cancel = make("button", "Cancel order") as HTMLButtonElement;
          cancel.type = "button";
          cancel.id = `cancel-${order.number}`;
          cancel.setAttribute("aria-label", `Cancel order ${order.number}`);
          const data = cancel.dataset;
          data.vipAction = order === open ? "order.cancel" : `order.cancel.${order.number}`;
          data.vipDescription = `Cancel order ${order.number}, ${order.what}`;
          data.vipSensitive = "";
          data.vipIdempotent = "false";
          data.vipConfirm = `Cancel order ${order.number}?`;
          cancel.addEventListener("click", () => this.cancelOrder(order.number));
          item.append(cancel);
        }
        return item;
      }),
    );
  }

  private cancelOrder(number: string): void {
    this.kept.orders = this.kept.orders.map((order) => (order.number === number ? { ...order, status: "cancelled" } : order));
    this.keep();
    this.drawOrders();
    this.news = `Order ${number} is cancelled.`;
  }

  private fillSettings(): void {
    const { name, bags, delivery, newsletter } = this.kept.settings;
    get<HTMLInputElement>("setting-name").value = name;
    get<HTMLInputElement>("setting-bags").value = String(bags);
    get<HTMLInputElement>("setting-newsletter").checked = newsletter;
    for (const radio of document.querySelectorAll<HTMLInputElement>("input[name=delivery]")) radio.checked = radio.value === delivery;
  }

  private filledIn(): Settings {
    const values = new FormData(get<HTMLFormElement>("settings-form"));
    return {
      name: String(values.get("name")),
      bags: Number(values.get("bags")),
      delivery: String(values.get("delivery")),
      newsletter: values.get("newsletter") !== null,
    };
  }

  private settingChanged(field: HTMLInputElement): void {
    const { name, bags, delivery, newsletter } = this.filledIn();
    const news: { [field: string]: string } = {
      name: `The name is ${name} now.`,
      bags: `${bags} bags from now on.`,
      delivery: `Delivery is ${delivery} now.`,
      newsletter: `The newsletter is ${newsletter ? "on" : "off"} now.`,
      password: "The password is filled in.",
    };
    this.news = news[field.name] ?? "";
    get("settings-status").textContent = "Not saved yet.";
  }

  private saveSettings(): void {
    this.kept.settings = this.filledIn();
    this.keep();
    this.news = "The settings are saved.";
    get("settings-status").textContent = "Saved.";
  }

  private isDark(): boolean {
    return this.kept.dark ?? matchMedia("(prefers-color-scheme: dark)").matches;
  }

  private applyTheme(): void {
    const dark = this.isDark();
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    get("dark-mode").setAttribute("aria-checked", String(dark));
  }

  private keep(): void {
    sessionStorage.setItem(KEY, JSON.stringify(this.kept));
  }
}

export function get<Kind extends HTMLElement = HTMLElement>(id: string): Kind {
  const found = document.getElementById(id);
  if (!found) throw new Error(`there is no element ${id}`);
  return found as Kind;
}

export function make(tag: string, text: string, name = ""): HTMLElement {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

function money(amount: number): string {
  return `€${amount.toFixed(2)}`;
}

function drawing(path: string): SVGSVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 48 48");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("drawing");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}
