/* walk_code.S: hand-written code of the kinds that compilers do not make. */
	.text

/* void bare_frame(void (*call)(void)): no rules, but a frame pointer. */
	.globl	bare_frame
	.type	bare_frame, @function
bare_frame:
	push	%rbp
	mov	%rsp, %rbp
	call	*%rdi
	pop	%rbp
	ret
	.size	bare_frame, . - bare_frame

/* void bare_none(void (*call)(void)): no rules, and rbp is zero meanwhile. */
	.globl	bare_none
	.type	bare_none, @function
bare_none:
	push	%rbp
	xor	%ebp, %ebp
	call	*%rdi
	pop	%rbp
	ret
	.size	bare_none, . - bare_none

/* void by_saved(void (*call)(void)): the CFA is found through rbx, as in the dynamic linker. */
	.globl	by_saved
	.type	by_saved, @function
by_saved:
	.cfi_startproc
	push	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset rbx, -16
	mov	%rsp, %rbx
	.cfi_def_cfa_register rbx
	and	$-64, %rsp
	sub	$256, %rsp
	call	*%rdi
	mov	%rbx, %rsp
	.cfi_def_cfa_register rsp
	pop	%rbx
	.cfi_def_cfa_offset 8
	.cfi_restore rbx
	ret
	.cfi_endproc
	.size	by_saved, . - by_saved

/* void by_memory(void (*call)(void)): the CFA is *(rsp + 16) + 8, as in OpenSSL. */
	.globl	by_memory
	.type	by_memory, @function
by_memory:
	.cfi_startproc
	mov	%rsp, %rax
	.cfi_def_cfa_register rax
	sub	$32, %rsp
	and	$-64, %rsp
	mov	%rax, 16(%rsp)
	.cfi_escape 0x0f, 0x05, 0x77, 0x10, 0x06, 0x23, 0x08
	call	*%rdi
	mov	16(%rsp), %rsp
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size	by_memory, . - by_memory

/* void by_unknown(void (*call)(void)): a rule that no table can keep (CFA = rsp + 16 by way of "swap"). */
	.globl	by_unknown
	.type	by_unknown, @function
by_unknown:
	.cfi_startproc
	sub	$8, %rsp
	.cfi_escape 0x0f, 0x05, 0x40, 0x77, 0x00, 0x16, 0x22
	call	*%rdi
	add	$8, %rsp
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size	by_unknown, . - by_unknown

/* void trap_on(void), trap_off(void): a trap after each instruction from now on, or no longer. */
	.globl	trap_on, trap_off
	.type	trap_on, @function
	.type	trap_off, @function
trap_on:
	.cfi_startproc
	pushf
	.cfi_def_cfa_offset 16
	orl	$0x100, (%rsp)
	popf
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	trap_on, . - trap_on
trap_off:
	.cfi_startproc
	pushf
	.cfi_def_cfa_offset 16
	andl	$~0x100, (%rsp)
	popf
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	trap_off, . - trap_off

	.section .note.GNU-stack, "", @progbits
