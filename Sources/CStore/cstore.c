#include "cstore.h"
