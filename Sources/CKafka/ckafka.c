#include "ckafka.h"
