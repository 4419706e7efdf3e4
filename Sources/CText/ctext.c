#include "ctext.h"
