#include "import/importer.h"

#define IMPORTER_ROW(name, description, read) { #name, description, read },
const struct importer importers[] = { IMPORTERS(IMPORTER_ROW){ .name = NULL } };
