#include "gguf/metadata.h"
