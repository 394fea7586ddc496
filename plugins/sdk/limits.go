package sdk

import "time"

// closeBound is how long a plugin that ends waits for its agent's
// conversations; what still runs then is killed.
const closeBound = 4 * time.Second
