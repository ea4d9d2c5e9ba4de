# cmake -DIN=file -DOUT=file.c -DSYMBOL=name -P embed.cmake: a file as a C array.
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," body "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..)" "\\1\n"
       body "${body}")
file(WRITE "${OUT}" "#include <stddef.h>
extern const unsigned char ${SYMBOL}[];
extern const size_t ${SYMBOL}_bytes;
const unsigned char ${SYMBOL}[] = {
${body}};
const size_t ${SYMBOL}_bytes = sizeof ${SYMBOL};
")
